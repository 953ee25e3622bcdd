"""What users call: functions of `dynamo`, compiled modules, `explain`, stances. `dynamo` loads each name on its first use."""
