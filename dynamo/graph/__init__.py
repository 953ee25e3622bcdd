"""What captured graphs are made of and how they run: functions they call, their code, what is done when one raises, what they leave."""
