-- Run once on the primary, as the superuser:
--   psql "host=10.0.0.11,10.0.0.12,10.0.0.13 user=postgres dbname=postgres target_session_attrs=read-write" \
--     --variable=password="$PASSWORD" --file=database.sql
create role keyrack login password :'password';
create database keyrack owner keyrack locale_provider builtin builtin_locale 'C.UTF-8' template template0;
