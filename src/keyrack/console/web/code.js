// A link that somebody was sent ends with a code behind a #, which no server and no log of one gets to see: here it is put into the
// form that asks for it, and sent. Without scripts it is typed or pasted there.
const field = document.querySelector("form[data-code] input[name=code]");
const code = decodeURIComponent(location.hash.slice(1));
if (field && code && !field.value) {
  history.replaceState(null, "", location.pathname);
  field.value = code;
  field.form.requestSubmit();
}
