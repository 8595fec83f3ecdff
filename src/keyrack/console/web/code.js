// Reads the code after the # of a mailed link, which reaches no server and no log. It fills the code into the form and sends it. Without
// scripts the code is typed.
const field = document.querySelector("form[data-code] input[name=code]");
const code = decodeURIComponent(location.hash.slice(1));
if (field && code && !field.value) {
  history.replaceState(null, "", location.pathname);
  field.value = code;
  field.form.requestSubmit();
}
