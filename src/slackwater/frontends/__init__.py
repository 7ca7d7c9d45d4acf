"""Front ends: text in, plan out."""
