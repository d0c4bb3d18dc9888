"""Pictures of a plan: matrices and timelines as text, SVG, PNG and Perfetto traces."""
