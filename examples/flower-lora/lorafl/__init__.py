"""LoRA with the Trainer of Hugging Face on Flower."""
