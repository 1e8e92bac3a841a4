"""Records what a server sends, as cases of the corpus: what is asked, what must not be kept, what a case says."""
