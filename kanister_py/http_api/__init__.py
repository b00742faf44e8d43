"""HTTP endpoint: functions, their versions, and the pages of runs."""
