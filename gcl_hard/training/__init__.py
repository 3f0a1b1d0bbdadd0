"""The one training loop; it knows neither graphs nor images."""
