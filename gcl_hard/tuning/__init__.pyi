from gcl_hard.tuning.result import Finding as Finding
from gcl_hard.tuning.result import SearchResult as SearchResult
from gcl_hard.tuning.space import Space as Space
