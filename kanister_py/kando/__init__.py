"""`kando`: what commands inside pods call to hand on outputs and to move data."""
