function overviewPanel(body) { body.append(NEEDS); }
