const cutsText = (name) => name;
function strategyPanel(body) { body.append(""); }
