"""Asks a JSON-RPC server with Python's standard library alone, as scripts do, and prints what it got as one JSON object.

usage: jsonrpc_client.py URL COOKIE_FILE HEIGHT
"""

import base64
import http.client
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

url, cookie_file, height = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(cookie_file, encoding="ascii") as f:
    cookie = f.read()
basic = "Basic " + base64.b64encode(cookie.encode()).decode()
headers = {"Authorization": basic, "Content-Type": "application/json"}

# One connection for everything: keep-alive, with replies of known length and of none.
connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)


def post(body):
    connection.request("POST", "/", json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    return json.loads(text) if text else None


def call(method, *params):
    reply = post({"jsonrpc": "1.0", "id": method, "method": method, "params": list(params)})
    assert reply["id"] == method and reply["jsonrpc"] == "1.0", reply
    return reply["error"] or reply["result"]


def refused():
    try:
        urllib.request.urlopen(urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}), timeout=60)
    except urllib.error.HTTPError as e:
        return e.code
    return 200


batch = [{"jsonrpc": "2.0", "id": h, "method": "getblockhash", "params": [h]} for h in range(height + 1)]
json.dump(
    {
        "Count": call("getblockcount"),
        "Best": call("getbestblockhash"),
        "Hashes": [reply["result"] for reply in post(batch)],
        "Long": [reply["result"]["height"] for reply in post(
            [{"jsonrpc": "2.0", "id": h, "method": "getblock", "params": [str(h), 2]} for h in range(200)])],
        "Notification": post({"jsonrpc": "2.0", "method": "getblockcount"}),
        "Missing": call("getblock", "99999", 1),
        "Unknown": call("stop"),
        "Refused": refused(),
    },
    sys.stdout,
)
