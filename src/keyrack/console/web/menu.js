// Menus (details.menu) close by Escape, by a click beside them, and when the focus leaves. The navigation's popover closes when the window
// is wide enough for it beside the page.

const OPEN = "details.menu[open]";

function closeAllBut(target) {
  for (const menu of document.querySelectorAll(OPEN)) if (!menu.contains(target)) menu.open = false;
}

document.addEventListener("click", (event) => closeAllBut(event.target));
document.addEventListener("focusin", (event) => closeAllBut(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = event.target.closest?.(OPEN);
  if (!menu) return;
  event.preventDefault();
  menu.open = false;
  menu.querySelector("summary").focus();
});

matchMedia("(width >= 64rem)").addEventListener("change", () => {
  const navigation = document.getElementById("navigation");
  if (navigation?.matches(":popover-open")) navigation.hidePopover();
});
