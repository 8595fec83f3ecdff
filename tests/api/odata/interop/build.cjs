// Prints, as JSON, queries that the builders make: the resource, the query string, and what it must be equal to.
const odataQuery = require("odata-query");
const { ODataFilterBuilder: f } = require("odata-filter-builder");
const { OdataQueryBuilder } = require("odata-builder");
const { OData } = require("@odata/client");

const made = [];
const add = (builder, resource, query, same) => made.push({ builder, resource, query: query.replace(/^\?/, ""), same });

const build = odataQuery.default ?? odataQuery;
const q = (resource, options, same) => add("odata-query", resource, build(options), same);
q("Car", { filter: { name: "Alpha" }, select: ["id", "name"] }, "$filter=name eq 'Alpha'&$select=id,name");
q("Car", { filter: { licensePlate: null } }, "$filter=licensePlate eq null");
q("Car", { filter: { not: { name: "Alpha" } } }, "$filter=name ne 'Alpha'");
q("Car", { filter: { name: { in: ["Alpha", "Gamma"] } }, orderBy: ["name desc"] },
  "$filter=name in ('Alpha','Gamma')&$orderby=name desc");
q("Car", { filter: { and: [{ name: { startswith: "A" } }, { or: [{ id: { gt: 0 } }, { "tolower(brand)": "vw" }] }] }, top: 2 },
  "$filter=startswith(name,'A')&$top=2");
q("Car", { filter: { products: { any: { uniqueId: "U2" } } } }, "$filter=products/any(p:p/uniqueId eq 'U2')");
q("Car", { expand: { products: { select: ["id"], top: 1, orderBy: "id desc", filter: { id: { gt: 0 } } } }, skip: 1 },
  "$expand=products($select=id;$top=1;$orderby=id desc)&$skip=1");
q("Event", { filter: { utcDateTime: { ge: new Date("2026-05-01T10:00:00Z") }, type: "CarOpened" }, count: true },
  "$filter=utcDateTime ge 2026-05-01T10:00:00Z and type eq 'CarOpened'");
q("Car", { search: "red", filter: "contains(description,'car')" }, "$search=red");

const filter = (resource, built, same) =>
  add("odata-filter-builder", resource, "$filter=" + encodeURIComponent(built.toString()), same);
filter("Car", f().eq("name", "Alpha").ne("id", 0), "$filter=name eq 'Alpha'");
filter("Car", f("or").contains((x) => x.toLower("name"), "bet").eq("vin", null), "$filter=name eq 'beta'");
filter("Car", f().not(f().in("name", ["Alpha", "beta"])), "$filter=not (name in ('Alpha','beta'))");
filter("Car", f().eq(f.functions.length("name"), 4).ge("id", 1), "$filter=length(name) eq 4");
filter("Car", f().eq(f.functions.indexOf("name", "lpha"), 1), "$filter=name eq 'Alpha'");

const b = (query, same) => add("odata-builder", "Car", query.toQuery(), same);
b(new OdataQueryBuilder().filter((x) => x.where((c) => c.name.eq("Alpha"))).select("name", "id").top(10),
  "$filter=name eq 'Alpha'&$select=name,id");
b(new OdataQueryBuilder().filter((x) => x.where((c) => c.name.contains("lph")).or((c) => c.id.lt(0))),
  "$filter=name eq 'Alpha'");
b(new OdataQueryBuilder().orderBy({ field: "name", orderDirection: "desc" }).skip(1).count(), "$orderby=name desc&$skip=1");

const o = (params, same) => add("@odata/client", "Car", params.toString("v4"), same);
const client = OData.New4({ serviceEndpoint: "http://localhost/" });
o(client.newParam().filter(client.newFilter().property("name").eq("Alpha")).select(["id"]), "$filter=name eq 'Alpha'&$select=id");
o(client.newParam().filter(client.newFilter().property("id").between(0, 99999999).property("name").ne("Alpha")).top(5).count(),
  "$filter=name ne 'Alpha'");
o(client.newParam().orderby("name", "asc").format("json").expand(["products"]), "$orderby=name&$expand=products");

console.log(JSON.stringify(made));
