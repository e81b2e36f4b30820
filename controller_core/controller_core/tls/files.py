"""The files of a directory with certificates, and the words for how a port serves.

The operator writes such directories, and the processes that it starts read them. So both take the names from
here. The layout is that of a Kubernetes Secret of type `kubernetes.io/tls`, with the trusted authorities.
"""

from typing import Final

CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
TRUST_FILE: Final = "ca.crt"
PERMISSIVE: Final = "permissive"
ENFORCING: Final = "enforcing"
TLS_MODES: Final = (PERMISSIVE, ENFORCING)
