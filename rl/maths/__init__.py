"""What a mathematical answer is worth: found in the text, read exactly, compared exactly or symbolically."""
