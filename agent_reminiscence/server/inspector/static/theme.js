// Before anything is drawn, so that a page does not flash in the other theme.
(() => {
  try {
    const theme = localStorage.getItem("reminiscence-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // A browser may keep nothing for us; then the system's theme is shown.
  }
})();
