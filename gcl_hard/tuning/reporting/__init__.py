"""What a person looks at after a search: a page, figures, and the best settings as a config."""
