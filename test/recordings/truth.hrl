%% What truth.erl writes down. Times are erlang:monotonic_time(nanosecond); ids
%% are in order of time.
-record(call, {id,
               request,         % id
               name,            % of the function: no two differ in arity only
               pid,             % as text
               parent,          % the call it was made from, of whatever request
               unseen,          % undefined, or up to this release it has no token
               before, first,   % around its start
               last, later,     % around its end
               tail = false,    % it ended in a tail call
               tail_of,         % it was one, and this call ended in it
               how = open}).    % returned, or open: it never came to an end, or
                                % {raised, direct | between, lowest | above, alone | passed}
-record(request, {id, identity, outer}).
