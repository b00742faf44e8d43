"""Wire format of composition functions: messages, their encoder and decoder."""
