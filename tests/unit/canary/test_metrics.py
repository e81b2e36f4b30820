"""What a scrape of the canary shows before anything happened."""

from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.schemas.segments import RESULTS


def test_every_result_is_shown_at_0_before_the_first_of_its_kind() -> None:
    registry = CanaryMetrics("orders").registry
    sends = {
        result: registry.get_sample_value("rmqha_canary_send_total", {"group": "orders", "result": result})
        for result in RESULTS
    }
    assert sends == {result: None if result == "missing" else 0.0 for result in RESULTS}
    for result in ("ok", "missing"):
        labels = {"group": "orders", "result": result}
        assert registry.get_sample_value("rmqha_canary_read_total", labels) == 0.0
    assert registry.get_sample_value("rmqha_canary_send_duration_seconds_count", {"group": "orders"}) == 0.0
