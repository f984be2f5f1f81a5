"""The nodes of a program as it was declared, and what follows from them."""
