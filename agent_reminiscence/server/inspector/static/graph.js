// Draws the graph around a name; a click on a part shows the evidence for it.
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const kinds = { person: "user", organization: "agent", place: "longterm", event: "active", product: "shortterm", project: "model", concept: "tool" };
  let shown = [];
  // Where each part stood, so that a slider moves nothing that is still there.
  const places = new Map();

  const style = () => [
    { selector: "node", style: {
      "background-color": (node) => colour(kinds[node.data("type")] || "ended"), label: "data(label)", color: colour("ink"),
      "font-size": 11, "font-family": "system-ui, sans-serif", "text-valign": "bottom", "text-margin-y": 5,
      "text-max-width": 110, "text-wrap": "ellipsis", "text-background-color": colour("surface"), "text-background-opacity": 0.8, "text-background-padding": 2,
      width: (node) => 16 + 5 * Math.min(Math.sqrt(node.data("mentions") || 1), 6),
      height: (node) => 16 + 5 * Math.min(Math.sqrt(node.data("mentions") || 1), 6),
    } },
    { selector: "node[hops = 0]", style: { "border-width": 4, "border-color": colour("accent"), "font-weight": "bold", "font-size": 13 } },
    { selector: "edge", style: {
      width: (edge) => 1 + 3 * edge.data("strength"), "line-color": colour("edge"), "target-arrow-color": colour("edge"),
      "target-arrow-shape": (edge) => (edge.data("label") === "related to" ? "none" : "triangle"),
      "arrow-scale": 0.8, "curve-style": "bezier", label: (edge) => (edge.data("label") === "related to" ? "" : edge.data("label")),
      "font-size": 9, color: colour("muted"), "text-rotation": "autorotate", "text-max-width": 90, "text-wrap": "ellipsis", "text-background-color": colour("surface"), "text-background-opacity": 0.9, "text-background-padding": 1,
    } },
    { selector: "edge[?ended]", style: { "line-style": "dashed" } },
    { selector: ":selected", style: { "line-color": colour("accent"), "target-arrow-color": colour("accent"), "overlay-color": colour("accent"), "overlay-opacity": 0.15, "overlay-padding": 4 } },
  ];

  const draw = () => {
    for (const graph of shown) graph.destroy();
    shown = [];
    for (const place of document.querySelectorAll("[data-graph]")) {
      const { nodes, edges } = JSON.parse(place.dataset.graph);
      if (!nodes.length) continue;
      const elements = [...nodes.map((data) => ({ group: "nodes", data })), ...edges.map((data) => ({ group: "edges", data }))];
      for (const element of elements) {
        if (places.has(element.data.id)) element.position = { ...places.get(element.data.id) };
      }
      const layout = nodes.every((node) => places.has(node.id))
        ? { name: "preset", padding: 26 }
        : { name: "fcose", animate: false, randomize: true, quality: "proof", nodeSeparation: 110, idealEdgeLength: 105, nodeRepulsion: 9000, padding: 26 };
      const graph = cytoscape({ container: place, elements, style: style(), minZoom: 0.2, maxZoom: 3, layout });
      for (const node of graph.nodes()) places.set(node.id(), node.position());
      graph.on("tap", "node, edge", (event) => {
        const part = event.target;
        const panel = place.dataset.panel;
        const address = part.isNode()
          ? `${place.dataset.address}/entities/${encodeURIComponent(part.id())}`
          : `${place.dataset.address}/relationships/${encodeURIComponent(part.id())}?entity=${encodeURIComponent(part.data("source"))}${place.dataset.at ? `&at=${encodeURIComponent(place.dataset.at)}` : ""}`;
        if (panel) htmx.ajax("GET", address, { target: panel, swap: "innerHTML" });
      });
      if (graph.zoom() > 1.3) {
        // A few circles need not fill the place.
        graph.zoom(1.3);
        graph.center();
      }
      place.reminiscence = graph;
      place.dataset.ready = "yes";
      shown.push(graph);
    }
  };
  draw();
  document.addEventListener("reminiscence:theme", () => {
    for (const graph of shown) graph.style(style());
  });
  document.addEventListener("htmx:after:swap", () => {
    if (document.querySelector("[data-graph]:not([data-ready])")) draw();
  });
})();
