"""The people and cars of the demo's fleets. All people are invented."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DemoCar:
    name: str
    brand: str
    model: str
    maker: str  # the first three characters of the vehicle identification number
    plate: str | None
    units: str = "BQ"  # installed units: B a box, Q an IQ unit
    description: str | None = None
    town: tuple[float, float] | None = None  # the area of the car, if it is not the town of its fleet


@dataclass(frozen=True, slots=True)
class DemoFleet:
    """One customer of the demo."""

    name: str
    town: tuple[float, float]  # latitude, longitude
    cars: tuple[DemoCar, ...]
    people: tuple[tuple[str, str], ...]  # first and last name
    groups: dict[str, tuple[range, range]]  # name -> indexes of cars and of people
    spare: dict[str, str] = field(default_factory=dict[str, str])  # serial number -> kind
    events: int = 0


BREMEN = (53.0793, 8.8017)
KIEL = (54.3233, 10.1228)
LUEBECK = (53.8655, 10.6866)
SHARED = ("Robin", "Wattenbek")  # a member of both fleets

HARBOUR = DemoFleet(
    "Harbour Car Sharing",
    (53.5511, 9.9937),
    (
        DemoCar("Pool car 1", "Volkswagen", "Golf", "WVW", "HH-KR 101"),
        DemoCar("Pool car 2", "Volkswagen", "ID.3", "WVW", "HH-KR 102E"),
        DemoCar("Pool car 3", "Skoda", "Octavia", "TMB", "HH-KR 103"),
        DemoCar("Pool car 4", "Opel", "Corsa", "W0V", "HH-KR 104"),
        DemoCar("Pool car 5", "Renault", "Clio", "VF1", "HH-KR 105", "B"),
        DemoCar("Pool car 6", "Toyota", "Yaris", "VNK", "HH-KR 106", "B"),
        DemoCar("Airport 1", "BMW", "320d Touring", "WBA", "HH-KR 201"),
        DemoCar("Airport 2", "Audi", "A4 Avant", "WAU", "HH-KR 202"),
        DemoCar("Airport 3", "Mercedes-Benz", "E 220 d", "W1K", "HH-KR 203"),
        DemoCar("Airport 4", "Volvo", "V60", "YV1", "HH-KR 204"),
        DemoCar("Airport 5", "Tesla", "Model 3", "LRW", "HH-KR 205E", "Q", "No box: opened by card."),
        DemoCar("City 1", "Fiat", "500e", "ZFA", "HH-KR 301E", town=LUEBECK),
        DemoCar("City 2", "smart", "fortwo", "WME", "HH-KR 302E", town=LUEBECK),
        DemoCar("City 3", "MINI", "Cooper", "WMW", "HH-KR 303", "B"),
        DemoCar("City 4", "Hyundai", "i20", "NLH", "HH-KR 304", town=LUEBECK),
        DemoCar("City 5", "Kia", "Picanto", "KNA", "HH-KR 305", "B"),
        DemoCar("Van 1", "Ford", "Transit Custom", "WF0", "HH-KR 401", town=BREMEN),
        DemoCar("Van 2", "Mercedes-Benz", "Vito", "WDF", "HH-KR 402", town=BREMEN),
        DemoCar("Van 3", "Volkswagen", "Transporter", "WV2", "HH-KR 403", "BQ", "Tail lift, trailer coupling", BREMEN),
        DemoCar("Van 4", "Peugeot", "Expert", "VF3", "HH-KR 404", town=KIEL),
        DemoCar("Van 5", "Iveco", "Daily", "ZCF", "HH-KR 405", town=KIEL),
        DemoCar("Weekend 1", "Mazda", "MX-5", "JMZ", "HH-KR 501", town=KIEL),
        DemoCar("Weekend 2", "Porsche", "Macan", "WP1", "HH-KR 502", ""),
        DemoCar("Reserve 1", "Citroën", "C3", "VF7", "HH-KR 601", ""),
        DemoCar("Reserve 2", "Dacia", "Sandero", "UU1", None, "", "Awaiting registration"),
    ),
    (
        ("Mara", "Oldenbrook"),
        ("Jonas", "Fehrmann"),
        ("Leyla", "Aslandere"),
        ("Piet", "Harmsworth"),
        ("Sofia", "Lindqvarn"),
        ("Tomasz", "Wierzbnik"),
        ("Aoife", "Kilbrannan"),
        ("Henrik", "Solbakke"),
        ("Noor", "Vandermolen"),
        ("Émile", "Gervasot"),
        SHARED,
    ),
    {
        "Pool": (range(6), range(6)),
        "Airport": (range(6, 11), range(2, 8)),
        "Vans": (range(16, 21), range(6, 11)),
        "Night shift": (range(4, 14), range(8, 11)),
        "Workshop": (range(0), range(0)),
    },
    {"SPARE-BOX-1": "Box", "SPARE-BOX-2": "Box", "SPARE-BOX-3": "Box", "SPARE-IQ-1": "IQ"},
    events=240,
)

ALPINE = DemoFleet(
    "Alpine Home Care",
    (47.8095, 13.0550),
    (
        DemoCar("Tour North", "Suzuki", "Ignis", "TSM", "S-KR 11"),
        DemoCar("Tour East", "Suzuki", "Swift", "JSA", "S-KR 12", "B"),
        DemoCar("Tour South", "Subaru", "Crosstrek", "JF1", "S-KR 13"),
        DemoCar("Tour West", "Dacia", "Duster", "UU1", "S-KR 14", "B"),
        DemoCar("Night duty", "SEAT", "Ibiza", "VSS", "S-KR 15"),
        DemoCar("Physiotherapy", "Honda", "Jazz", "JHM", "S-KR 16", "B"),
        DemoCar("Meals", "Nissan", "Townstar", "VNV", "S-KR 17E", "B"),
        DemoCar("Management", "Polestar", "2", "LPS", "S-KR 18E", ""),
    ),
    (("Katharina", "Moosrainer"), ("Luka", "Dolenjak"), ("Ilse", "Achleithen"), ("Bruno", "Tarvisan"), SHARED),
    {"Day tours": (range(4), range(3)), "Night duty": (range(4, 5), range(2, 5))},
    {"SPARE-BOX-1": "Box"},
    events=60,
)

FLEETS = (HARBOUR, ALPINE)


def address(person: tuple[str, str]) -> str:
    """A person's e-mail address, at a reserved domain."""
    first, last = (name.lower().replace("é", "e") for name in person)
    return f"{first}.{last}@example.org"
