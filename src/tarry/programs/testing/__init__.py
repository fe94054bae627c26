"""What users test their jobs with: a pytest plugin, and clocks that let imaginary time pass for workers too."""
