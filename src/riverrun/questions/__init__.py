"""Questions over the parts of a table: what each page is asked, and the answer of all."""
