# ruff: noqa: RUF001 - people write in their own script.
"""Ordinary sentences and harmless commands in which a careless rule sees a secret. All of them must stay."""

from __future__ import annotations

from typing import Final

# Behind a word for a password, or for one that also means a key, a word, a slogan or a code.
WORDS_FOR_PASSWORDS: Final = (
    "Palabras clave: SARS-CoV-2, vacunas",
    "Palabras clave: tokens4web3apps, python3",
    "La clave es paciencia!",
    "La clave es word2vec-2024",
    "Pregunta clave: ¿cuándo?",
    "Elemento clave: CO2-neutral",
    "Una parola: Grazie!",
    "La parola è d'argento, parola: 12345678",
    "Hasło: Solidarność!",
    "Hasło: Polska2030!",
    "Heslo je špatně!",
    "Le mot de passe est incorrect!",
    "A senha é obrigatória!",
    "Resenha: 5-estrelas, filme2024",
    "Passwort ist falsch!",
    "Das Passwort ist 12-stellig und SHA-256-gehasht",
    "wachtwoord is verplicht!",
    "Šifra: ART-12345",
    "암호: AES-256",
    "암호는 AES-256-GCM",
    "口令: Olympic2024!",
    "Гасло: Слава2022!",
    "Κωδικός: ABC-12345",
    "Autoclave: 121C/15min",
    "Enclave: Nagorno-Karabakh?",
    "The password is required!",
    "The password is base64-encoded, and the passphrase is 24-word.",
    "The password is AES-256 encrypted; the old password is SHA256-hashed.",
    "Password: Required*",
    "Password: Ctrl+Shift resets it",
    "password: ask ann@example.org, or password: ann@example.org",
    "clave: 123e4567-e89b-12d3-a456-426614174000",
    "clave: usuario2@example.com",
    "the password is users2.yaml's third field",
)

# Beside the names of programs and their options.
COMMANDS: Final = (
    "The machine account password expires every 30 days",
    "machine learning password cracking",
    "The vending machine admin password must be changed",
    "time machine backup password prompt",
    "On this machine root login and password authentication are off",
    "On machine db1.example login and password authentication are off",
    "The time machine backup\nlogin needs\npassword prompts",
    "The default login and password are printed on the label",
    "the default login page password field",
    "The redis-cli -a flag is deprecated",
    "docker login -p option is insecure; use docker login --password-stdin",
    "docker login -u ann -p flag is deprecated",
    "sshpass -p takes the password itself, sshpass -p password!",
    "Link the mysql client with -pthread",
    "gcc -o mysql client.c -pthread2",
    "the mysql -p3306x typo",
    "docker run --name mysql -p3306:3306",
    "docker run --name mysql -p127.0.0.1:3306:3306 -d mysql",
    "mysql -port3306 is wrong, mysql --port=3306 is right",
    "curl https://a.example/x.tgz | docker run --user 1000:1000 -i img",
    "curl -O https://a.example/x && docker run -u www-data:www-data img",
    "curl https://a.example; sudo -u app2:group2 id",
    "curl is not installed, so docker run -u app:group2 img",
    "use curl and docker run --user app2:group2 img",
    "curly -u braces:everywhere2",
    "cookies, sid=abcdefgh1234 and Cookie_policy=1; sid=abcdefgh1234",
    "Cookie: a=1\nsid=abcdefgh1234 is on the next line",
)

PROSE: Final = (*WORDS_FOR_PASSWORDS, *COMMANDS)
