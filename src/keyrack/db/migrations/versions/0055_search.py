"""One form of text for searches: folding, documents, matches, ranks and natural order.

`search_text` is the document of a row:

- U+001C and the code by which people know the row, such as the plate, without blanks and punctuation.
- U+001D and the name, with digraphs as one letter.
- Behind each U+001F a text, each word behind a blank: its words, and its words without punctuation; then both with
  digraphs as one letter.
- Behind U+001E long numbers, such as a VIN. Fewer than six digits, and one or two characters, are not looked for there.

A trigger fills both columns, also for a release before this one. A housekeeping step fills older rows.
"""

from alembic import op

revision = "0055"
down_revision = "0053"

# Case, accents, ligatures and widths are folded. Independent of the locale but for the case of other scripts.
FOLD = r"""
create function search_fold(value text) returns text language sql immutable parallel safe strict as $$
  select case when octet_length(value) = length(value) then lower(value) else
    replace(replace(replace(replace(
      translate(
        lower(regexp_replace(
          normalize(value, NFKD), '[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]', '', 'g')),
        'øØłŁđĐðÐħĦŧŦıςẞÆŒÞ', 'oollddddhhttiσßæœþ'),
      'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'), 'þ', 'th') end
$$
"""
# `U+001F` stays: it separates texts
WORDS = r"""
create function search_words(folded text) returns text language sql immutable parallel safe strict as $$
  select btrim(regexp_replace(folded,
    '[\u0001-\u001e\u0020-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u00d7\u00f7\u2000-\u206f\u2190-\u2bff'
    '\u3000-\u303f\ufe30-\ufe4f\ufeff]+', ' ', 'g'))
$$
"""
JOINED = r"""
create function search_joined(folded text) returns text language sql immutable parallel safe strict as $$
  select btrim(regexp_replace(regexp_replace(folded, '[\u0009-\u000d\u0020\u0085\u2028\u2029]+', ' ', 'g'),
    '[\u0001-\u001e\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u00d7\u00f7\u2000-\u206f\u2190-\u2bff'
    '\u3000-\u303f\ufe30-\ufe4f\ufeff]+', '', 'g'))
$$
"""
# "Juergen" and "Jürgen" are the same; a word is looked for with and without it, so that "er" finds "Bauer"
DIGRAPHS = """
create function search_digraphs(folded text) returns text language sql immutable parallel safe strict as $$
  select replace(replace(replace(folded, 'ae', 'a'), 'oe', 'o'), 'ue', 'u')
$$
"""
DOCUMENT = """
create function search_document(code text, name text, texts text[], ids text[]) returns text
language plpgsql immutable parallel safe as $$
declare
  short_ids text[] := array(select id from unnest(ids) id where length(id) < 6);
  long_ids text[] := array(select id from unnest(ids) id where length(id) >= 6);
  folded text := search_fold(concat_ws(chr(31), translate(code, chr(31), ''), translate(name, chr(31), ''),
    translate(array_to_string(texts || short_ids, chr(30)), chr(31) || chr(30), chr(30) || chr(31))));
  bare text := coalesce(replace(search_words(search_fold(translate(code, chr(31), ''))), ' ', ''), '');
  words text := search_words(folded);
  joined text := search_joined(folded);
  body text := bare || chr(31) || words || case when joined <> words then chr(31) || joined else '' end;
  digraphs text := search_digraphs(body);
begin
  return chr(28) || search_digraphs(bare)
    || chr(29) || coalesce(search_digraphs(search_words(search_fold(translate(name, chr(31), '')))), '')
    || chr(31) || ' ' || replace(body, chr(31), chr(31) || ' ')
    || case when digraphs <> body then chr(31) || ' ' || replace(digraphs, chr(31), chr(31) || ' ') else '' end
    || chr(30) || ' ' || coalesce(search_joined(search_fold(array_to_string(long_ids, ' '))), '');
end $$
"""
# One or two characters match at the beginning of a word alone: nearly every text has them somewhere
PATTERN = """
create function search_pattern(word text) returns text language sql immutable parallel safe strict as $$
  select case
    when joined = '' then '%'
    when octet_length(joined) <= 2 then '% ' || joined || '%' || chr(30) || '%'
    when joined ~ '^[0-9]{1,5}$' then '%' || joined || '%' || chr(30) || '%'
    else '%' || joined || '%'
  end from (select search_joined(search_fold(word)) as joined) j
$$
"""
DIGRAPH_PATTERN = """
create function search_digraph_pattern(word text) returns text language sql immutable parallel safe strict as $$
  select search_pattern(search_digraphs(search_fold(word)))
$$
"""
# Made once for a search: the code, the name, and what a document in which each word begins a word is like
RANK_KEYS = """
create function search_rank_keys(typed text) returns text[] language sql immutable parallel safe strict as $$
  select array[chr(28) || replace(words, ' ', ''), chr(29) || words]
    || array(select '% ' || word || '%' from string_to_table(words, ' ') word)
  from (select search_digraphs(search_words(search_fold(translate(typed, chr(31), ' ')))) as words) w
$$
"""
# 0 code equal, 1 name equal, 2 code begins, 3 name begins, 4 every word begins a word, 5 contained
RANK = """
create function search_rank(document text, keys text[]) returns integer
language plpgsql immutable parallel safe as $$
begin
  return case
    when keys[1] = chr(28) then 5
    when starts_with(document, keys[1] || chr(29)) then 0
    when strpos(document, keys[2] || chr(31)) > 0 then 1
    when starts_with(document, keys[1]) then 2
    when strpos(document, keys[2]) > 0 then 3
    when document like all (keys[3:]) then 4
    else 5
  end;
end $$
"""
# Numbers have twenty digits, so that "City 2" comes before "City 10"
NATURAL = r"""
create function natural_key(value text) returns text language sql immutable parallel safe strict as $$
  select regexp_replace(regexp_replace(search_words(search_fold(value)), '([0-9]+)', repeat('0', 20) || '\1', 'g'),
    '[0-9]*([0-9]{20})(?![0-9])', '\1', 'g') collate "C"
$$
"""
# Table -> the columns that the document is made from, the document, and the text that rows are ordered by
TABLES = {
    "car": (
        "name, license_plate, description, brand, model, vin",
        "r.license_plate, r.name, array[r.description, r.brand, r.model], array[r.vin]",
        "r.name",
    ),
    "person": (
        "first_name, last_name, email_address",
        "r.last_name, concat_ws(' ', r.first_name, r.last_name), array[r.email_address], null",
        "r.last_name",
    ),
    "product": (
        "serial_number, unique_id, sap_number",
        "r.serial_number, null, array[r.sap_number], array[r.unique_id]",
        "r.serial_number",
    ),
    "fleet_group": ("name", "null, r.name, null, null", "r.name"),
}
COLUMNS = 'alter table {table} add column search_text text collate "C", add column sort_key text collate "C"'
DOCUMENT_OF = """
create function search_document(r {table}) returns text language sql immutable parallel safe as $$
  select search_document({document})
$$
"""
NATURAL_OF = """
create function natural_key(r {table}) returns text language sql immutable parallel safe as $$
  select natural_key({order})
$$
"""
FILL = """
create function fill_search_text() returns trigger language plpgsql as $$
begin
  new.search_text := search_document(new);
  new.sort_key := natural_key(new);
  return new;
end $$
"""
TRIGGER = """
create trigger fill_search_text before insert or update of {columns}, search_text on {table}
for each row execute function fill_search_text()
"""
# Both are trusted: the owner of the database may make them. Without them, searches have no index.
EXTENSIONS = """
create function create_search_extensions() returns void language plpgsql as $$
begin
  if (select count(*) = 2 from pg_available_extensions where name in ('pg_trgm', 'btree_gin')) then
    create extension if not exists pg_trgm;
    create extension if not exists btree_gin;
  end if;
exception when insufficient_privilege then
  raise notice 'pg_trgm and btree_gin are not created: searches have no index';
end $$
"""


def upgrade() -> None:
    functions = (FOLD, WORDS, JOINED, DIGRAPHS, DOCUMENT, PATTERN, DIGRAPH_PATTERN, RANK_KEYS, RANK, NATURAL)
    for statement in functions:
        op.execute(statement.strip())
    for table in TABLES:
        op.execute(COLUMNS.format(table=table))
    for table, (_, document, order) in TABLES.items():
        op.execute(DOCUMENT_OF.format(table=table, document=document).strip())
        op.execute(NATURAL_OF.format(table=table, order=order).strip())
    op.execute(FILL.strip())
    for table, (columns, _, _) in TABLES.items():
        op.execute(TRIGGER.format(columns=columns, table=table).strip())
    op.execute(EXTENSIONS.strip())
    op.execute("select create_search_extensions()")
