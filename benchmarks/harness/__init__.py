"""What ``run.py`` is made of: scenarios, processes, targets, report. Standard library only."""
