"""Two readers of Python's library: email.utils, and that of the default policy. See tests/support/readers.rs."""
import base64
import email
import email.policy
import json
import sys
from email.utils import getaddresses

for line in sys.stdin:
    field, text = line.split()
    raw = base64.b64decode(text)
    values = email.message_from_bytes(raw).get_all(field, [])
    found = [address for _, address in getaddresses([str(value) for value in values])]
    try:
        for value in email.message_from_bytes(raw, policy=email.policy.default).get_all(field, []):
            found += [address.addr_spec for address in value.addresses]
    except Exception:  # It fails on some texts; then the other reader is asked alone.
        pass
    print(json.dumps([address.encode("utf-8", "replace").decode() for address in found]))
