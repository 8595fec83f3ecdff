"""The SQL functions of searches: folding, documents, matches, ranks and natural order."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from tests.support.servers import Sql

# A stored text, and its folded form
FOLDED = [
    ("K-PC 1469", "k-pc 1469"),
    ("Größmann", "grossmann"),
    ("GRÖSSMANN", "grossmann"),
    ("GROẞMANN", "grossmann"),
    ("Jürgen", "jurgen"),
    ("Citroën", "citroen"),
    ("Škoda", "skoda"),
    ("İstanbul", "istanbul"),
    ("Iğdır", "igdir"),
    ("ΟΔΟΣ", "οδοσ"),
    ("οδός", "οδοσ"),
    ("Nguyễn Thị Ánh", "nguyen thi anh"),
    ("Đặng", "dang"),
    ("Łukasz", "lukasz"),
    ("Żółć", "zolc"),
    ("Sørensen", "sorensen"),
    ("Ærø", "aero"),
    ("Åse", "ase"),
    ("Þór", "thor"),
    ("Guðrún", "gudrun"),
    ("Œuvre", "oeuvre"),
    ("ﬁnance", "finance"),
    ("ﬄ", "ffl"),
    ("Ĳsselmeer", "ijsselmeer"),
    ("ＡＢＣ１２３", "abc123"),
    ("ｶﾀｶﾅ", normalize("NFKD", "カタカナ")),
    ("Čapek", "capek"),
    ("Dvořák", "dvorak"),
    ("Ştefan", "stefan"),
    ("Țăndărei", "tandarei"),
    ("Peña", "pena"),
    ("São Tomé", "sao tome"),
    ("Ħamrun", "hamrun"),
    ("Ŧ", "t"),
    ("ſtraße", "strasse"),
    ("Вася", "вася"),
    ("ЁЛКА", "елка"),
    ("x²", "x2"),
    ("№ 5", "no 5"),
    ("½", "1⁄2"),
    ("㎞", "km"),
    ("Ǆ", "dz"),
    ("東京", "東京"),
    ("한글", normalize("NFKD", "한글")),
    ("O’Brien", "o’brien"),
]


@pytest.mark.parametrize(("text", "folded"), FOLDED)
def test_a_text_is_folded(sql: Sql, text: str, folded: str) -> None:
    for form in ("NFC", "NFD"):
        assert sql.value("select search_fold($1)", normalize(form, text)) == folded
    assert sql.value("select search_fold($1)", folded) == folded


MATCHES = "d like search_pattern($2) or d like search_digraph_pattern($2)"
# A stored name, a typed text, and whether they match
NAMES = [
    ("Größmann", "grossmann", True),
    ("Größmann", "groessmann", True),
    ("Größmann", "Groeßmann", True),
    ("Jürgen", "juergen", True),
    ("Jürgen", "jurgen", True),
    ("Jürgen", "JÜRGEN", True),
    ("Juergen", "jürgen", True),
    ("Bauer", "er", False),  # two letters begin a word
    ("Bauer", "uer", True),
    ("Bauer", "bauer", True),
    ("Anna-Lena", "annalena", True),
    ("Anna-Lena", "lena", True),
    ("Anna-Lena", "le", True),
    ("Pool Nord 32", "3", True),
    ("Pool Nord 32", "2", False),
    ("Pool Nord 32", "po", True),
    ("Pool Nord 32", "ol", False),
    ("Pool Nord 32", "pool nord", True),
    ("Pool Nord 32", "poolnord", False),
    ("Pool Nord 32", "-", True),
    ("100 %", "%", True),
    ("a_b", "axb", False),
    ("東京駅", "京駅", True),
    ("O’Brien", "o'brien", True),
    ("O’Brien", "obrien", True),
    ("kim@example.org", "example.org", True),
]


@pytest.mark.parametrize(("name", "typed", "is_found"), NAMES)
def test_a_name_matches_what_people_type(sql: Sql, name: str, typed: str, is_found: bool) -> None:
    statement = f"select {MATCHES} from search_document(null, $1, null, null) d"
    assert sql.value(statement, name, typed) is is_found


@pytest.mark.parametrize(
    ("plate", "typed", "is_found"),
    [
        ("K-PC 1469", "KPC1469", True),
        ("K-PC 1469", "k-pc1469", True),
        ("K-PC 1469", "kpc14", True),
        ("K-PC 1469", "pc1469", True),
        ("K-PC 1469", "pc", True),
        ("K-PC 1469", "1469", True),
        ("K-PC 1469", "469", True),
        ("K-PC 1469", "69", False),
        ("KOE-E 12", "koee12", True),
        ("KOE-E 12", "ee12", True),
        ("HH‑KR 102 E", "hhkr102e", True),
    ],
)
def test_a_plate_matches_with_and_without_blanks(sql: Sql, plate: str, typed: str, is_found: bool) -> None:
    statement = f"select {MATCHES} from search_document($1, 'Golf', null, null) d"
    assert sql.value(statement, plate, typed) is is_found


@pytest.mark.parametrize(
    ("typed", "is_found"),
    [("56", False), ("00112", False), ("001122", True), ("wvw", True), ("zz", False), ("1k", False), ("wv", False)],
)
def test_short_numbers_are_not_looked_for_in_a_vin(sql: Sql, typed: str, is_found: bool) -> None:
    statement = (
        "select d like search_pattern($1) from search_document('K-AI 1', 'Golf', null, array['WVWZZZ1KZ6W001122']) d"
    )
    assert sql.value(statement, typed) is is_found


def test_a_short_unique_number_is_found(sql: Sql) -> None:
    statement = "select d like search_pattern($1) from search_document('S1', null, null, array['U17']) d"
    assert [sql.value(statement, typed) for typed in ("17", "U17", "u1", "1")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("typed", "rank"),
    [
        ("kpc1469", 0), ("k pc 1469", 0), ("POOL NORD", 1), ("k-pc", 2), ("kpc14", 2), ("pool", 3), ("poo", 3),
        ("nord blue", 4), ("ord", 5), ("", 5),
    ],
)  # fmt: skip
def test_exact_and_prefix_matches_come_first(sql: Sql, typed: str, rank: int) -> None:
    statement = (
        "select search_rank(search_document('K-PC 1469', 'Pool Nord', array['blue'], null), search_rank_keys($1))"
    )
    assert sql.value(statement, typed) == rank


def test_separators_in_a_text_do_not_divide_it(sql: Sql) -> None:
    statement = "select search_document($1, $2, array[$3], array[$4])"
    odd = "a\x1fb\x1ec"
    document: str = sql.value(statement, odd, odd, odd, odd)
    assert document.count("\x1e") == 1
    assert document.startswith("\x1cabc\x1dab c\x1f abc\x1f ab c\x1f")


def test_names_sort_naturally(sql: Sql) -> None:
    names = ["City 10", "City 2", "city 1", "City 02b", "Äpfel", "Apfel 3", f"City {10**15}", "City 10 A", "Zoo"]
    rows = sql.rows('select n from unnest($1::text[]) n order by natural_key(n) collate "C", n', names)
    assert [row["n"] for row in rows] == [
        "Äpfel", "Apfel 3", "city 1", "City 2", "City 02b", "City 10", "City 10 A", f"City {10**15}", "Zoo",
    ]  # fmt: skip
