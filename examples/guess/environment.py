# Thinks of a number from 1 to 9, the record's answer, and says whether it is higher (+) or lower (-) than a guess.
import json
import sys

for line in sys.stdin:
    turn = json.loads(line)
    guess, number = turn["completion"][-1:], turn["reference"]
    if guess == number:
        reply = {"done": True, "reward": 1 - 0.1 * (turn["turn"] - 1)}
    elif turn["last"] or not guess.isdigit():
        reply = {"done": True, "reward": 0}
    else:
        reply = {"text": "+" if number > guess else "-"}
    print(json.dumps(reply), flush=True)
