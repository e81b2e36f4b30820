"""Pages of metrics as large as a broker's and its companion's, for those who scrape many.

Their labels are as long as those of a 5.4 broker that serves one topic, most of whose series are buckets of
histograms. Three lines of four stay as they are from scrape to scrape and are written once.
"""

from dataclasses import dataclass
from typing import Final

SERIES_OF_A_BROKER: Final = 209
SERIES_OF_A_COMPANION: Final = 40
CHANGING: Final = 4
"""Every so many-th series changes from scrape to scrape."""


@dataclass(slots=True)
class MetricsPage:
    """A page of Prometheus text whose changing lines count how often it was read."""

    still: bytes
    changing: list[bytes]
    reads: int = 0

    def text(self) -> bytes:
        """Return the page as it is now."""
        self.reads += 1
        value = b" %d\n" % self.reads
        return self.still + b"".join([head + value for head in self.changing])


def page(name: str, group: str, lines: int) -> MetricsPage:
    """Return a page of so many samples, labelled as a broker's histograms are."""
    heads = [
        f'rocketmq_rpc_latency_milliseconds_bucket{{cluster="main",is_long_polling="false",node_id="{group}",'
        f'node_type="broker",otel_scope_name="broker-meter",protocol_type="remoting",'
        f'request_code="{number // 10}",response_code="success",result="success",'
        f'member="{name}",le="{number % 10}.0"}}'.encode()
        for number in range(lines)
    ]
    still = b"".join(head + b" 162832\n" for place, head in enumerate(heads) if place % CHANGING)
    return MetricsPage(b"# TYPE rocketmq_rpc_latency_milliseconds histogram\n" + still, heads[::CHANGING])
