"""What holds for all tests."""

import os

from hypothesis import HealthCheck, settings

# Hypothesis gives an example 200 ms, and ten of them a second to be made: bounds on the machine, which may stand still for
# longer, and on nothing that is ours. A test that hangs is ended by pytest's own time-out.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# The same examples in every run: what is found is found again. New ones: HYPOTHESIS_PROFILE=search make test.
settings.register_profile("tests", settings.get_profile("search"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))
