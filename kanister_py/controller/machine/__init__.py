"""What every controller kind runs on."""
