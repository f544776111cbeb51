{application, notes, [
    {description, "Notes over HTTP"},
    {vsn, "1.0.0"},
    {modules, [notes_app, notes_auth, notes_index, notes_store, notes_text,
               notes_login_h, notes_list_h, notes_note_h, notes_search_h]},
    {registered, [notes_sup, notes_auth, notes_index]},
    {applications, [kernel, stdlib, crypto, cowboy]},
    {mod, {notes_app, []}},
    {env, []}
]}.
