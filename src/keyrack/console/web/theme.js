// [name=theme] of the settings: the page shows a theme as soon as it is chosen. Later the server writes it into the page, so no page starts
// with the wrong one.

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-theme-choice]")) return;
  const theme = event.target.value;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
});
