"""From a pull request to a published result: the part of the board that talks to GitHub.

`event` reads what happened, `changes` and `rights` judge it (pure), `host` alone speaks to the API,
`gate`, `report`, `progress` and `publish` are the verbs that workflows call through `kbl ci`.
"""
