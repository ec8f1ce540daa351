"""`handrail chat`: a conversation with an agent in a terminal.

| file            | what it is                                                          |
|-----------------|---------------------------------------------------------------------|
| `_sheet`        | a transcript as blocks to draw; pure                                |
| `_leaves`       | a long Markdown text cut into leaves; pure                          |
| `_outline`      | what is open in it, line by line; pure                              |
| `_rows`         | a leaf as rows, tables and code below each other; pure              |
| `_lines`        | a line of those as it is drawn, selected and copied                 |
| `_form`         | what a question can be answered with; pure                          |
| `_status`       | the line that says how things stand; pure                           |
| `_commands`     | what can be typed with a slash in front, and the keys               |
| `_consents`     | tools of this side that wait for the person's word                  |
| `_keep`         | conversations in files                                              |
| `_garbage`      | collections that stay short                                         |
| `_conversation`, `_prose`, `_questions`, `_composer`, `_page` | the widgets           |
| `_app`          | the application, on an `AgentSession`                               |
"""
