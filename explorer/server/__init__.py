"""How the app is served: what stands between the network and the page."""
