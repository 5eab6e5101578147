"""One quantity of the hardware or two over ranges of values: points, answers, measures, fronts."""
