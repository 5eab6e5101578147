"""Work in other processes and on other machines; local ones end with their owner."""
