"""`kando`: the program that commands in pods call to set outputs and to move data."""
