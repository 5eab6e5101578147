"""Where the packages of this project lie: the folder that a child process needs on its import path."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
