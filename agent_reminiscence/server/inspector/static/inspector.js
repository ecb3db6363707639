// What the pages do beyond forms and links. Everything is there without it, too.
(() => {
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };

  const toggle = document.querySelector("[data-theme-toggle]");
  const nameToggle = () => {
    toggle.textContent = isDark() ? "Light theme" : "Dark theme";
  };
  if (toggle) {
    toggle.hidden = false;
    nameToggle();
    toggle.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("reminiscence-theme", document.documentElement.dataset.theme);
      } catch {
        // It holds for this page only.
      }
      nameToggle();
      document.dispatchEvent(new CustomEvent("reminiscence:theme"));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      nameToggle();
      document.dispatchEvent(new CustomEvent("reminiscence:theme"));
    });
  }

  // On a telephone the list of pages is wider than the screen.
  document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // The passage that an address asks for.
  const asked = new URLSearchParams(location.search).get("passage");
  const passage = asked && document.getElementById(`p-${asked}`);
  if (passage) {
    passage.classList.add("wanted");
    passage.scrollIntoView({ block: "center" });
  }

  // A part of a page that does not come: what was there stays, and the reader is told.
  const trouble = document.getElementById("trouble");
  const tell = (text) => {
    if (!trouble) return;
    trouble.textContent = text;
    trouble.hidden = !text;
  };
  document.addEventListener("htmx:before:response", (event) => {
    const { response } = event.detail.ctx;
    if (response.headers.get("hx-redirect")) return;
    if ((response.headers.get("content-type") || "").startsWith("text/html")) {
      tell("");
      return;
    }
    event.preventDefault();
    tell(response.status === 429 || response.status === 503 ? "The server is busy. Wait a moment, and try again." : "The server refused this. Load the page again.");
  });
  document.addEventListener("htmx:error", () => tell("The server does not answer. What is shown may be out of date."));

  const start = (root) => {
    for (const form of root.querySelectorAll("form[data-submit-on-change]")) {
      if (form.dataset.started) continue;
      form.dataset.started = "yes";
      form.addEventListener("change", () => form.requestSubmit());
    }
  };
  start(document);
  document.addEventListener("htmx:after:swap", () => start(document));
})();
