"""Bring models in from a Hugging Face config.json alone, or from the preset of a published one."""
