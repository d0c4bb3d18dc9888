function topologyPanel(body) { body.append(""); }
