// The charts of how a memory grew.
(async () => {
  const place = document.getElementById("growth");
  if (!place) return;
  const answer = await fetch(place.dataset.address, { credentials: "same-origin" });
  if (!answer.ok) return;
  const grown = await answer.json();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  let charts = [];

  const today = document.getElementById("tokens-today");
  if (today) today.textContent = grown.tokens_today.toLocaleString("en");
  if (!grown.is_whole) document.getElementById("growth-is-cut").hidden = false;

  // In UTC, as everywhere here, and as short as the distance of two marks allows.
  const stamp = (seconds) => new Date(seconds * 1e3).toISOString();
  const marks = (chart, splits, axis, space, step) =>
    splits.map((at) => {
      const read = stamp(at);
      if (step >= 86400) return read.slice(0, 10);
      if (step >= 60) return read.slice(11, 16);
      return step >= 1 ? read.slice(11, 19) : read.slice(14, 23);
    });
  const when = (chart, at) => (at == null ? "–" : stamp(at).replace("T", " ").slice(0, 19));

  const axes = () => {
    const one = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    return [{ ...one, values: marks, space: 90 }, { ...one, size: 56 }];
  };
  const width = (element) => Math.max(element.clientWidth, 200);
  const draw = (element, options, data) => {
    const chart = new uPlot({ width: width(element), height: 220, cursor: { drag: { x: true, y: false } }, padding: [10, 34, 0, 0], ...options }, data, element);
    charts.push([chart, element]);
  };

  const bars = (label, name) => ({
    label, stroke: colour(name), fill: colour(name), paths: uPlot.paths.bars({ size: [0.6, 40] }), points: { show: false },
  });
  const drawDays = (element, names, series, values) => {
    const days = names.map((day) => Date.parse(`${day}T00:00:00Z`) / 1000);
    const scales = days.length === 1 ? { x: { range: [days[0] - 2 * 86400, days[0] + 2 * 86400] } } : {};
    draw(element, { tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "UTC"), scales, axes: axes(), series: [{ label: "day", value: (chart, at) => when(chart, at).slice(0, 10) }, ...series] }, [days, ...values]);
  };

  const drawAll = () => {
    for (const [chart] of charts) chart.destroy();
    charts = [];
    if (grown.times.length > 1) {
      const series = grown.tiers.map((tier) => ({
        label: tier, stroke: colour(tier), width: 2, fill: `color-mix(in srgb, ${colour(tier)} 9%, transparent)`,
        paths: uPlot.paths.stepped({ align: 1 }), points: { show: grown.times.length < 40, size: 5 },
      }));
      draw(place, { tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "UTC"), axes: axes(), series: [{ label: "recorded", value: when }, ...series] }, [grown.times, ...grown.counts]);
      document.getElementById("growth-empty").hidden = true;
    }
    const spent = document.getElementById("tokens");
    const names = ["accent", "agent", "model", "import"];
    if (spent && grown.models.length) drawDays(spent, grown.days, grown.models.map((model, index) => bars(model, names[index % names.length])), grown.tokens);
    const questions = document.getElementById("questions");
    const recalls = grown.recalls;
    if (questions && recalls.days.length) {
      // One above the other: the taller bar, of all questions, stands behind.
      const every = recalls.found.map((found, index) => found + recalls.not_found[index]);
      drawDays(questions, recalls.days, [bars("asked", "muted"), bars("found", "accent")], [every, recalls.found]);
      const lines = [["half took at most, ms", "accent"], ["95 %, ms", "agent"]];
      drawDays(document.getElementById("recall-times"), recalls.days, lines.map(([label, name]) => ({ label, stroke: colour(name), width: 2, points: { size: 5 } })), recalls.milliseconds);
    }
  };
  drawAll();
  place.dataset.ready = "yes";
  document.addEventListener("reminiscence:theme", drawAll);
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const [chart, element] of charts) chart.setSize({ width: width(element), height: 220 });
    }, 150);
  });
})();
