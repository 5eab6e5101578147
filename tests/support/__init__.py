"""What several tests share: graphs, slow references, served pages, waiting."""
