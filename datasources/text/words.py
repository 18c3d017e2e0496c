"""Splits text into words, and lists words that say nothing about a topic."""

import re
from collections.abc import Set

# English function words of three or more letters, and the parts of "don't" or "we'll".
STOP_WORDS = frozenset(
    """
    able about above across after afterwards again against ain all almost alone along already also
    although always among amongst and another any anyhow anyone anything anyway anywhere are
    aren around because become becomes becoming been before beforehand behind being below beside
    besides between beyond both but can cannot could couldn did didn does doesn doing don done down
    during each either else elsewhere enough etc even ever every everyone everything everywhere
    except few first for from further furthermore get gets getting give given gives goes got had
    hadn has hasn have haven having hence her here hers herself him himself his how however indeed
    instead into isn its itself just last least less let like likely likewise made make makes
    making many may maybe meanwhile might mine more moreover most mostly much must mustn myself
    namely near nearly need needn neither never nevertheless next nobody none nor not nothing now
    nowhere off often once one ones only onto other others otherwise ought our ours ourselves out
    over own per perhaps please quite rather really same second seem seems several shall shan she
    should shouldn since some somehow someone something sometimes somewhat somewhere still such
    take taken takes than that the their theirs them themselves then thence there thereby therefore
    these they third this those though three through throughout thus together too toward towards
    two under unless unlike until upon use used uses using usually very via want wants was wasn way
    well were weren what whatever when whenever where whereas wherever whether which whichever
    while who whoever whole whom whose why will with within without won would wouldn yet you your
    yours yourself yourselves
    """.split()
)

# Words that Python docstrings use about any subject.
DOCSTRING_WORDS = frozenset(
    """
    accept accepts access add added additional allow allowed allows appropriate arg args argument
    arguments attr attribute attributes available based behavior behaviour bool call callable
    called caller calling calls case cases change check checks class classes common contain
    containing contains convenience corresponding create created creates creating current currently
    custom def default defaults define defined defines depending describe described different
    documentation dont effect empty equivalent error errors exact example examples exception
    exceptions exist existing exists expected false following foo form full func function functions
    general generic handle handles helper ignored implement implementation implemented implements
    include included includes including indicate indicates individual info information init initial
    initialize instance instances int internal invalid item items keyword keywords kind known
    kwargs kwds main mean means method methods missing modify name named names necessary needed new
    non normal normally note number obj object objects obtain omitted operation optional optionally
    original overridden override param parameter parameters particular pass passed passing perform
    place possible present previous private properly property provide provided provides public
    purpose python raise raised raises reason reference related replace represent representation
    representing represents require required requires result resulting results return returned
    returning returns see self set sets setting similar simple simply single special specific
    specified specifies specify start str subclass subclasses suitable support supported supports
    sure thing true try tuple turn type types typically unchanged user usual valid value values
    variable various work works wrapper written yield yields
    """.split()
)


_WORD = re.compile(r"[^\W\d_]{3,}")


def words(text: str, stop: Set[str] = STOP_WORDS) -> list[str]:
    """Return the words of `text` in lower case, without those in `stop`.

    A word is a run of three or more letters of any script; all other characters separate words.

    >>> words("The SOCKET's recv_into(buffer) reads 1024 Bytes; don't block.")
    ['socket', 'recv', 'buffer', 'reads', 'bytes', 'block']
    """
    return [word for word in _WORD.findall(text.lower()) if word not in stop]
